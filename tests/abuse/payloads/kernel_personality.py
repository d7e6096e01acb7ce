"""Another personality: addresses that are the same each time, and data that can be executed."""

from tests.abuse.payloads.verdict import call, done, numbers, through

PERSONALITY = numbers({"personality": 135}, {"personality": 92})["personality"]
for name, value in {"addresses that stay": 0x40000, "all is executable": 0x400000, "an old kernel's": 0x20000}.items():
    for high in (0, 1 << 32):
        if call(PERSONALITY, value | high)[0] >= 0:
            through(name)
done()
