"""Devices of homes, kept by the indexer. Spoken commands are resolved to them."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue, StringConstraints

from skillbus.contracts.audit_log import AuditedAct
from skillbus.contracts.endpoint import Endpoint
from skillbus.contracts.errors import ErrorCode
from skillbus.contracts.indexer import SERVICE
from skillbus.contracts.message import NOT_BLANK, VISIBLE, WITHOUT_NUL, Message, ProjectMessage

MAX_DEVICES: Final = 500
"""Most devices of one `put_devices` request."""
MAX_DEVICE_IDS: Final = 2_000
"""Most ids of one `remove_devices` request."""

HomeName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, strip_whitespace=True),
    WITHOUT_NUL,
    NOT_BLANK,
    Field(description="Name of a home, unique in its project."),
    VISIBLE,
]
DeviceId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, strip_whitespace=True),
    WITHOUT_NUL,
    NOT_BLANK,
    Field(description="Id of a device, unique in its home."),
]
SpokenName = Annotated[
    str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True), WITHOUT_NUL, NOT_BLANK, VISIBLE
]
DeviceType = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", strip_whitespace=True, to_lower=True),
    Field(description="Type of a device, such as `light` or `cover`. Other types than the grammar knows are allowed."),
]
CapabilityId = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True), WITHOUT_NUL]
CommandId = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), WITHOUT_NUL]


class Device(Message):
    """Device of a home; also one line of an import."""

    home: HomeName
    id: DeviceId
    name: SpokenName
    """Name by which people call it."""
    aliases: tuple[SpokenName, ...] = Field(default=(), max_length=50)
    """Other names by which people call it."""
    room: SpokenName | None = None
    """Room in which it is."""
    type: DeviceType
    capabilities: tuple[CapabilityId, ...] = Field(default=(), max_length=200)
    """Capabilities of the command library. The device has all commands of each."""
    commands: tuple[CommandId, ...] = Field(default=(), max_length=200)
    """Ids of further commands of the library."""


class PutDevices(ProjectMessage):
    """Devices to add or replace. Each is accepted or rejected on its own."""

    devices: tuple[JsonValue, ...] = Field(min_length=1, max_length=MAX_DEVICES)
    """Values that should each be a `Device`."""
    home: HomeName | None = None
    """Home of the devices that name none."""


class PutOutcome(StrEnum):
    """Result of putting one device or command."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"


class DevicePut(Message):
    """Result for one device."""

    home: str | None
    id: str | None
    """Absent if the value has no readable id."""
    outcome: PutOutcome
    error: str | None = None


class DevicesPut(Message):
    """Result for each device, in the order of the request."""

    results: tuple[DevicePut, ...]
    indexed: bool
    """True if the index has all of them. If false, the indexer adds them when vector store and embedder are back."""


class RemoveDevices(ProjectMessage):
    """Devices to remove."""

    home: HomeName
    ids: tuple[DeviceId, ...] = Field(default=(), max_length=MAX_DEVICE_IDS)
    """Empty means every device of the home."""


class DevicesRemoved(Message):
    """Ids of the devices that existed and were removed."""

    ids: tuple[str, ...]


class ListDevices(ProjectMessage):
    """Query for one page of the devices of a project, ordered by home and id."""

    home: HomeName | None = None
    """List only devices of this home."""
    room: SpokenName | None = None
    """List only devices in this room."""
    type: DeviceType | None = None
    """List only devices of this type."""
    text: str | None = Field(default=None, max_length=200)
    """List only devices with this text in their id, name or aliases, ignoring case."""
    limit: int = Field(default=100, ge=1, le=1_000)
    after: str | None = Field(default=None, max_length=600)
    """`next` of the page before."""


class DevicesListed(Message):
    """One page of devices."""

    devices: tuple[Device, ...]
    total: int
    next: str | None = None


class ListHomes(ProjectMessage):
    """Query for the homes of a project."""


class HomeSummary(Message):
    """A home."""

    home: str
    devices: int
    rooms: int


class HomesListed(Message):
    """Homes of a project by name; the first 1,000."""

    homes: tuple[HomeSummary, ...]
    total: int


class LoadHome(ProjectMessage):
    """Query for the devices of a home, page by page, unless the caller has them already."""

    home: HomeName
    known: int | None = None
    """Revision that the caller has. If the home is still at it, the reply has no devices."""
    after: str | None = Field(default=None, max_length=500)
    """`next` of the page before."""


class HomeLoaded(Message):
    """A page of the devices of a home."""

    revision: int
    """Changes with each change of a device of the home. Another revision than that of the first page means: start
    again."""
    devices: tuple[Device, ...] = ()
    unchanged: bool = False
    next: str | None = None


_LAMP: Final = {
    "home": "Green House",
    "id": "lamp-1",
    "name": "台灯",
    "aliases": ["desk lamp"],
    "room": "书房",
    "type": "light",
    "capabilities": ["switch", "switchLevel"],
}

PUT_DEVICES: Final = Endpoint(
    service=SERVICE,
    name="put_devices",
    request=PutDevices,
    reply=DevicesPut,
    summary="Add or replace up to 500 devices of homes. Unchanged devices are not embedded again.",
    stores_data=True,
    timeout_s=60.0,
    example={"devices": [_LAMP]},
    act=AuditedAct(made="results.id", details=("home",)),
)
REMOVE_DEVICES: Final = Endpoint(
    service=SERVICE,
    name="remove_devices",
    request=RemoveDevices,
    reply=DevicesRemoved,
    summary="Remove devices of a home, or all of them.",
    timeout_s=60.0,
    example={"home": "Green House", "ids": ["lamp-1"]},
    act=AuditedAct("ids", made="ids", details=("home",)),
)
LIST_DEVICES: Final = Endpoint(
    service=SERVICE,
    name="list_devices",
    request=ListDevices,
    reply=DevicesListed,
    summary="List one page of the devices of a project.",
    is_read=True,
    example={"limit": 10},
)
LIST_HOMES: Final = Endpoint(
    service=SERVICE,
    name="list_homes",
    request=ListHomes,
    reply=HomesListed,
    summary="List the homes of a project with the number of their devices.",
    is_read=True,
)
LOAD_HOME: Final = Endpoint(
    service=SERVICE,
    name="load_home",
    request=LoadHome,
    reply=HomeLoaded,
    summary="Return the devices of a home page by page, or say that they are those that the caller has.",
    is_read=True,
    raises=(ErrorCode.NOT_FOUND,),
    timeout_s=30.0,
    example={"home": "Green House"},
)
