"""Words for types of devices, in the singular.

The types are those of Home Assistant, SmartThings and Matter: domains (`light`, `cover`) and classes of sensors
(`motion`, `moisture`).
"""

from typing import Final

from skillbus.queryir.english.lexicon.phrases import PhraseTable, spread_phrases

DEVICE_TYPES: Final = {
    "light": (
        "light, lamp, bulb, light bulb, lighting, spotlight, spot light, downlight, uplight, chandelier, "
        "sconce, led, led strip, light strip, night light, nightlight, lantern, fairy light, string light, "
        "ceiling light, tube light, tubelight, downlighter, floodlight, flood light"
    ),
    "switch": "switch, light switch, relay",
    "outlet": (
        "outlet, plug, socket, power outlet, wall outlet, wall plug, wall socket, smart plug, power socket, "
        "power strip, power point, receptacle"
    ),
    "fan": "fan, ceiling fan, ventilator, extractor, extractor fan, exhaust fan, range hood, cooker hood, hood,"
    " kitchen chimney, ventilation,"
    "pedestal fan",
    "cover": "cover, blind, curtain, drape, shade, window shade, roller shade, shutter, roller shutter, awning,"
    "window blind, roller blind, venetian blind, window covering, gate, skylight, roller,"
    " sunshade",
    "climate": (
        "ac, a c, air con, aircon, air conditioner, air conditioning, air conditioning unit, thermostat, "
        "climate, hvac, heat pump, climate control, air condition, radiator thermostat"
    ),
    "heater": (
        "heater, radiator, heating, boiler, water heater, space heater, underfloor heating, towel rail, "
        "furnace, geyser, immersion heater, hot water, central heating, towel warmer"
    ),
    "lock": "lock, door lock, smart lock, deadbolt, latch, padlock, bolt",
    "valve": "valve, water valve, gas valve, shutoff valve, tap, faucet",
    "sprinkler": "sprinkler, irrigation, irrigation system, lawn sprinkler",
    "vacuum": (
        "vacuum, vacuum cleaner, robot, robot vacuum, robot cleaner, hoover, vac, robovac, cleaning robot, "
        "robot vacuum cleaner, roomba"
    ),
    "lawn_mower": "lawn mower, mower, lawnmower, robot mower",
    "media_player": "media player, player, media, music player, receiver, streamer, set top box, soundbar, sound bar",
    "tv": "tv, t v, television, television set, telly, smart tv",
    "speaker": "speaker, loudspeaker, smart speaker, stereo, hi fi, hifi, radio",
    "camera": "camera, cam, webcam, security camera, doorbell camera",
    "doorbell": "doorbell, door bell, chime",
    "humidifier": "humidifier",
    "dehumidifier": "dehumidifier",
    "air_purifier": "air purifier, purifier, air cleaner, air filter",
    "washer": "washer, washing machine, clothes washer, laundry washer, laundry machine",
    "dryer": "dryer, tumble dryer, clothes dryer, drier, laundry dryer",
    "dishwasher": "dishwasher, dish washer",
    "fridge": "fridge, refrigerator, freezer, fridge freezer",
    "oven": "oven, stove, cooker, microwave, microwave oven, cooktop, hob",
    "kettle": "kettle",
    "coffee_maker": "coffee maker, coffee machine, espresso machine",
    "siren": "siren, alarm siren",
    "alarm": "alarm, alarm system, security system, burglar alarm, alarm panel",
    "pump": "pump, water pump",
    "button": "button",
    "remote": "remote, remote control",
    "scene": "scene",
    "script": "script",
    "automation": "automation, routine",
    "person": "person",
    "sensor": "sensor, detector, meter, gauge, thermometer",
    "door": "door",
    "window": "window",
    "garage_door": "garage, garage door",
}
"""Words by type of device."""

SENSOR_CLASSES: Final = {
    "motion": "motion, movement",
    "occupancy": "occupancy",
    "presence": "presence",
    "moisture": "moisture, leak, water leak, leakage, water, flood, flooding, soil moisture, moisture level",
    "smoke": "smoke, fire",
    "gas": "gas, gas leak, natural gas",
    "carbon_monoxide": "carbon monoxide, co, carbon monoxide alarm",
    "carbon_dioxide": "carbon dioxide, co 2",
    "battery": "battery, battery level, battery charge, battery status, battery percentage, battery state",
    "battery_charging": "battery charging",
    "connectivity": "connectivity, connection, wifi, wi fi, internet",
    "contact": "contact",
    "opening": "opening",
    "vibration": "vibration",
    "tamper": "tamper, tampering",
    "problem": "problem, issue, fault, error",
    "safety": "safety",
    "sound": "sound, noise",
    "update": "update, firmware, firmware update, software update",
    "running": "",
    "heat": "heat",
    "cold": "cold",
    "plug": "",
    "temperature": "temperature, temp",
    "humidity": "humidity, relative humidity",
    "illuminance": "illuminance, light level, luminance, lux, ambient light, light intensity",
    "power": "power, power consumption, power usage, power draw, wattage, electricity",
    "energy": "energy, energy consumption, energy usage, energy use, electricity usage, electricity consumption",
    "voltage": "voltage",
    "current": "electric current, amperage",
    "frequency": "frequency",
    "pressure": "pressure, air pressure, barometric pressure, atmospheric pressure",
    "aqi": "air quality, air quality index, aqi",
    "pm25": "pm 2.5, pm 25, fine dust, particulate matter, particulates",
    "pm10": "pm 10",
    "pm1": "pm 1",
    "volatile_organic_compounds": "voc, vocs, tvoc, volatile organic compounds",
    "ozone": "ozone",
    "nitrogen_dioxide": "nitrogen dioxide, no 2",
    "sulphur_dioxide": "sulphur dioxide, sulfur dioxide, so 2",
    "formaldehyde": "formaldehyde",
    "signal_strength": "signal strength, signal",
    "wind_speed": "wind speed, wind",
    "precipitation": "rain, rainfall, precipitation",
    "uv_index": "uv index, uv",
    "weight": "weight",
    "distance": "distance",
    "duration": "duration",
    "weather": "weather, forecast, weather forecast",
}
"""Words by class of sensor: what is measured or detected. Behind each may stand one of `SENSOR_WORDS`."""

SENSOR_WORDS: Final = ("sensor", "detector", "meter", "monitor", "alarm", "gauge", "reading")

_ROWS: Final = spread_phrases({key: words for key, words in DEVICE_TYPES.items() if words})
_CLASSES: Final = spread_phrases({key: words for key, words in SENSOR_CLASSES.items() if words})
_SENSORS: Final = {f"{words} {sensor}": key for words, key in _CLASSES.items() for sensor in SENSOR_WORDS}
_CONTACTS: Final = {
    f"{noun} {sensor}": key
    for noun, key in {"door": "door", "window": "window", "garage door": "garage_door", "light": "illuminance"}.items()
    for sensor in ("sensor", "detector", "contact", "contact sensor")
}
TYPE_WORDS: Final = PhraseTable(_CLASSES | _SENSORS | _CONTACTS | _ROWS, singular=True)
"""Type of each phrase, in the singular."""

CLASSES: Final = frozenset(SENSOR_CLASSES)
FORMULAS: Final = {
    "carbon_dioxide": ("co", "2"),
    "carbon_monoxide": ("co",),
    "nitrogen_dioxide": ("no", "2"),
    "sulphur_dioxide": ("so", "2"),
    "volatile_organic_compounds": ("voc",),
    "aqi": ("aqi",),
}
"""Words of the names of sensors for what a sentence says in full: `carbon dioxide`."""
FAMILIES: Final = {
    "light": "light",
    "cover": "cover blind curtain shade shutter awning garage garage_door gate door window",
    "valve": "valve",
    "climate": "climate thermostat heater air_conditioner water_heater fridge oven kettle",
    "media": "media_player tv speaker",
    "fan": "fan air_purifier",
    "humidity": "humidifier dehumidifier",
    "lock": "lock",
    "vacuum": "vacuum lawn_mower",
    "appliance": "washer dryer dishwasher coffee_maker",
    "scene": "scene script automation",
    "sensor": "sensor binary_sensor " + " ".join(SENSOR_CLASSES),
}
FAMILY_OF_TYPE: Final = {one: family for family, types in FAMILIES.items() for one in types.split()}
"""Group of types that the same verbs and values fit."""
