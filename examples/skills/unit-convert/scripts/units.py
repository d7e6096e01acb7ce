"""The units known: for each quantity, name → (size in the quantity's base unit, aliases).

Sizes are decimal strings, read as exact fractions: SI brochure (9th edition), the international yard and pound (1959),
US liquid measures, and the Chinese market units of 1929 as kept today (1 斤 = 500 g, 1 里 = 500 m, 15 亩 = 1 ha).
"""

from collections.abc import Mapping

Units = Mapping[str, tuple[str, str]]

UNITS: Mapping[str, Units] = {
    "length": {
        "m": ("1", "meter metre meters metres 米 公尺"),
        "km": ("1000", "kilometer kilometre kilometers kilometres 千米 公里"),
        "dm": ("0.1", "decimeter decimetre 分米"),
        "cm": ("0.01", "centimeter centimetre centimeters centimetres 厘米 公分"),
        "mm": ("0.001", "millimeter millimetre millimeters millimetres 毫米"),
        "um": ("0.000001", "µm μm micrometer micron 微米"),
        "nm": ("0.000000001", "nanometer 纳米"),
        "in": ("0.0254", "inch inches 英寸"),
        "ft": ("0.3048", "foot feet 英尺"),
        "yd": ("0.9144", "yard yards 码"),
        "mi": ("1609.344", "mile miles 英里"),
        "nmi": ("1852", "nautical-mile 海里"),
        "里": ("500", "华里 市里"),
        "丈": ("10/3", "市丈"),
        "尺": ("1/3", "市尺"),
        "寸": ("1/30", "市寸"),
    },
    "mass": {
        "kg": ("1", "kilogram kilograms kilo 千克 公斤"),
        "g": ("0.001", "gram grams 克"),
        "mg": ("0.000001", "milligram milligrams 毫克"),
        "t": ("1000", "tonne tonnes ton-metric 吨"),
        "lb": ("0.45359237", "lbs pound pounds 磅"),
        "oz": ("0.028349523125", "ounce ounces 盎司"),
        "st": ("6.35029318", "stone 英石"),
        "斤": ("0.5", "市斤"),
        "两": ("0.05", "市两"),
        "钱": ("0.005", "市钱"),
    },
    "area": {
        "m2": ("1", "m² sqm square-meter 平方米 平米"),
        "km2": ("1000000", "km² square-kilometer 平方公里 平方千米"),
        "cm2": ("0.0001", "cm² 平方厘米"),
        "ha": ("10000", "hectare hectares 公顷"),
        "acre": ("4046.8564224", "acres ac 英亩"),
        "ft2": ("0.09290304", "ft² sqft square-foot square-feet 平方英尺"),
        "亩": ("2000/3", "市亩 mu"),
    },
    "volume": {
        "l": ("1", "liter litre liters litres 升 公升"),
        "ml": ("0.001", "milliliter millilitre milliliters cc 毫升"),
        "m3": ("1000", "m³ cubic-meter 立方米"),
        "gal": ("3.785411784", "gallon gallons us-gallon 加仑"),
        "qt": ("0.946352946", "quart quarts 夸脱"),
        "pt": ("0.473176473", "pint pints 品脱"),
        "cup": ("0.2365882365", "cups 杯"),
        "floz": ("0.0295735295625", "fluid-ounce fl-oz 液量盎司"),
        "tbsp": ("0.01478676478125", "tablespoon tablespoons 汤匙"),
        "tsp": ("0.00492892159375", "teaspoon teaspoons 茶匙"),
    },
    "speed": {
        "m/s": ("1", "mps 米每秒 米/秒"),
        "km/h": ("5/18", "kmh kph 千米每小时 公里每小时 公里/小时 千米/小时"),
        "mph": ("0.44704", "mile/h miles-per-hour 英里每小时"),
        "kn": ("463/900", "knot knots 节"),
        "ft/s": ("0.3048", "fps"),
    },
    "time": {
        "s": ("1", "sec second seconds 秒"),
        "ms": ("0.001", "millisecond milliseconds 毫秒"),
        "us": ("0.000001", "µs μs microsecond microseconds 微秒"),
        "min": ("60", "minute minutes 分钟 分"),
        "h": ("3600", "hr hour hours 小时 时"),
        "d": ("86400", "day days 天 日"),
        "week": ("604800", "weeks wk 周 星期"),
    },
    "data": {
        "byte": ("1", "bytes 字节"),
        "bit": ("0.125", "bits 比特"),
        "kb": ("1e3", "kilobyte kilobytes"),
        "mb": ("1e6", "megabyte megabytes 兆字节"),
        "gb": ("1e9", "gigabyte gigabytes 吉字节"),
        "tb": ("1e12", "terabyte terabytes 太字节"),
        "kib": ("1024", "kibibyte"),
        "mib": ("1048576", "mebibyte"),
        "gib": ("1073741824", "gibibyte"),
        "tib": ("1099511627776", "tebibyte"),
    },
    "pressure": {
        "pa": ("1", "pascal 帕 帕斯卡"),
        "kpa": ("1000", "kilopascal 千帕"),
        "mpa": ("1000000", "megapascal 兆帕"),
        "bar": ("100000", "bars 巴"),
        "atm": ("101325", "atmosphere 标准大气压"),
        "mmhg": ("133.322387415", "毫米汞柱"),
        "psi": ("6894.757293168", "磅每平方英寸"),
    },
    "energy": {
        "j": ("1", "joule joules 焦 焦耳"),
        "kj": ("1000", "kilojoule kilojoules 千焦"),
        "cal": ("4.184", "calorie calories 卡 卡路里"),
        "kcal": ("4184", "kilocalorie kilocalories 千卡 大卡"),
        "wh": ("3600", "watt-hour 瓦时"),
        "kwh": ("3600000", "kilowatt-hour 千瓦时 度电"),
        "btu": ("1055.05585262", "英热单位"),
    },
    "power": {
        "w": ("1", "watt watts 瓦 瓦特"),
        "kw": ("1000", "kilowatt kilowatts 千瓦"),
        "hp": ("745.69987158227022", "horsepower 英制马力"),
        "ps": ("735.49875", "metric-horsepower 马力 公制马力"),
    },
    "angle": {
        "deg": ("1", "degree degrees ° 度"),
        "arcmin": ("1/60", "角分"),
        "arcsec": ("1/3600", "角秒"),
        "turn": ("360", "turns revolution 圈"),
    },
}

# name → (size of one degree in kelvin, kelvin at the scale's zero, aliases)
TEMPERATURES: Mapping[str, tuple[str, str, str]] = {
    "c": ("1", "273.15", "°c ℃ celsius centigrade 摄氏度 摄氏"),
    "f": ("5/9", "45967/180", "°f ℉ fahrenheit 华氏度 华氏"),
    "k": ("1", "0", "kelvin 开尔文 开"),
}
