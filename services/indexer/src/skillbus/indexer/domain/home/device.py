"""Record of a device, and the form in which all devices are kept in memory."""

import hashlib
import sys
from dataclasses import dataclass

from pydantic import JsonValue

from skillbus.contracts.indexer.devices import Device, ListDevices
from skillbus.contracts.message import ProjectMessage
from skillbus.indexer.domain.index.ports import Key
from skillbus.indexer.domain.record.values import RefusedValueError, validate_value


class DeviceRecord(ProjectMessage):
    """A device of a home of a project."""

    device: Device

    @property
    def key(self) -> Key:
        return self.project, make_device_key_id(self.device.home, self.device.id)

    @property
    def digest(self) -> str:
        """Digest of the device. A new optional field does not change it."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def content(self) -> bytes:
        """The device as JSON."""
        return self.device.model_dump_json(exclude_defaults=True).encode()


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """Some 800 bytes of a device."""

    key: Key
    digest: str
    home: str
    id: str
    room: str | None
    type: str
    content: bytes
    """The device as JSON, which takes a quarter of the memory of the object."""

    def matches(self, request: ListDevices) -> bool:
        """Return True if the device matches the filters of a request."""
        return (
            request.home in {None, self.home}
            and request.room in {None, self.room}
            and request.type in {None, self.type}
            and (request.text is None or self._has_text(request.text.casefold()))
        )

    def to_device(self) -> Device:
        return Device.model_validate_json(self.content)

    def _has_text(self, text: str) -> bool:
        device = self.to_device()
        return text in "\n".join((device.id, device.name, *device.aliases)).casefold()


def list_device(record: DeviceRecord) -> ListedDevice:
    device, content = record.device, record.content
    return ListedDevice(
        key=record.key,
        digest=hashlib.sha256(content).hexdigest(),
        home=sys.intern(device.home),
        id=device.id,
        room=None if device.room is None else sys.intern(device.room),
        type=sys.intern(device.type),
        content=content,
    )


def make_device_key_id(home: str, device_id: str) -> str:
    """Return the id of a device among those of all homes. Two homes may have devices of one id."""
    return f"{home.replace('%', '%25').replace('/', '%2F')}/{device_id}"


def split_device_key_id(key_id: str) -> tuple[str, str]:
    """Return home and id of a device."""
    home, _, device_id = key_id.partition("/")
    return home.replace("%2F", "/").replace("%25", "%"), device_id


def parse_device(project: str, home: str | None, value: JsonValue) -> DeviceRecord:
    """Parse a device. `home` is that of a device that names none. Raises RefusedValueError."""
    if not isinstance(value, dict) or value.get("home") is not None:
        device = validate_value(Device, value)
    elif home is None:
        raise RefusedValueError("home: is missing: name the home in the device, or for all devices of the request")
    else:
        device = validate_value(Device, value, home=home)
    return DeviceRecord.model_construct(project=project, device=device)
