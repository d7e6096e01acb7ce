"""A home in Chinese for tests of the grammar."""

from skillbus.contracts.indexer.devices import Device
from skillbus.queryir.home import Home


def put_device(identifier: str, name: str, room: str | None, kind: str, *aliases: str) -> Device:
    """Return a device of the home."""
    return Device(home="家", id=identifier, name=name, aliases=aliases, room=room, type=kind)


CHINESE_HOME = Home(
    "家",
    [
        put_device("1", "老伙计", "客厅", "fan", "老风扇"),
        put_device("2", "客厅主灯", "客厅", "light", "客厅灯"),
        put_device("3", "客厅落地灯", "客厅", "light", "落地灯"),
        put_device("4", "客厅空调", "客厅", "climate"),
        put_device("5", "客厅窗帘", "客厅", "cover"),
        put_device("6", "电视", "客厅", "tv", "电视机"),
        put_device("7", "扫地机器人", "客厅", "vacuum", "小旋风"),
        put_device("8", "卧室灯", "卧室", "light"),
        put_device("9", "床头灯", "卧室", "light"),
        put_device("10", "卧室空调", "卧室", "climate"),
        put_device("11", "书房台灯", "书房", "light"),
        put_device("12", "大门锁", "玄关", "lock", "前门"),
        put_device("13", "厨房灯", "厨房", "light"),
        put_device("14", "观影模式", None, "scene"),
        put_device("15", "燃气阀", "厨房", "valve"),
        put_device("16", "卫生间灯", "卫生间", "light"),
        put_device("17", "加湿器", "卧室", "humidifier"),
    ],
)
