"""Outcome for one command of a sentence: the devices that have a command and are meant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from skillbus.common.paging import measure_json
from skillbus.contracts.message import Message
from skillbus.contracts.retriever.command_resolution import (
    DroppedDevice,
    RecalledDevice,
    RecallReason,
    ResolutionStatus,
    ResolvedCommandCall,
    ResolvedDevice,
    ResolvedQuery,
)
from skillbus.contracts.retriever.query_ir import Quantifier, QueryIR
from skillbus.queryir.recall import DeviceMatch, Recall, RecallGap
from skillbus.queryir.sentence import Language
from skillbus.retriever.domain.resolution.command_choice import ChosenCommand, CommandCheck, RefusedDevice
from skillbus.retriever.domain.resolution.questions import ask_about_gap, ask_to_choose

MAX_CANDIDATES: Final = 20
SURE: Final = 0.6
"""Confidence of a reading above which its devices are resolved. At or below it a part of the sentence was guessed or
not read, and the speaker is asked, unless the home has devices of the name."""
_NAMED: Final = frozenset({RecallReason.NAME_HIT, RecallReason.ALIAS_HIT, RecallReason.FUZZY_HIT})
_MAX_DROPPED: Final = 100

ValueT = TypeVar("ValueT", bound=Message)


@dataclass(frozen=True, slots=True)
class CheckedDevice:
    """Recalled device with its command."""

    match: DeviceMatch
    choice: ChosenCommand

    @property
    def confidence(self) -> float:
        """Confidence that the device and the command are those that are meant."""
        return self.match.confidence * self.choice.score


@dataclass(frozen=True, slots=True)
class Selection:
    """Devices that are meant, or those to choose from."""

    status: ResolutionStatus
    devices: Sequence[CheckedDevice] = ()
    candidates: Sequence[CheckedDevice] = ()


def select_devices(query: QueryIR, fitting: Sequence[CheckedDevice]) -> Selection:
    """Select the devices that are meant among those with a command.

    Of a reading that is not sure, nothing is resolved but a device whose name it says: see `SURE`.
    A name that several have, a number or `some` that leaves a choice, and several devices of which none has the type
    that the sentence names, are ambiguous. `one` means the first in the order of the home, and the others are
    candidates.
    """
    is_unclear = len(fitting) > 1 and any(each.match.near_type for each in fitting)
    is_guessed = query.confidence <= SURE and not all(_NAMED.intersection(each.match.reasons) for each in fitting)
    if is_unclear or is_guessed:
        return Selection(ResolutionStatus.AMBIGUOUS, candidates=fitting)
    match query.quantifier:
        case Quantifier.ONE:
            return Selection(ResolutionStatus.RESOLVED, fitting[:1], fitting[1:])
        case Quantifier.ALL | Quantifier.EXCEPT:
            clear = True
        case Quantifier.SOME | Quantifier.COUNT:
            clear = len(fitting) == (query.arguments.count or 1)
        case _:
            clear = len(fitting) == 1 or not query.name_hint or bool(query.references)
    if clear:
        return Selection(ResolutionStatus.RESOLVED, fitting)
    return Selection(ResolutionStatus.AMBIGUOUS, candidates=fitting)


def decide_outcome(
    query: QueryIR, matches: Sequence[DeviceMatch], check: CommandCheck, language: Language, max_bytes: int
) -> tuple[ResolvedQuery, Sequence[str] | None]:
    """Return the outcome for a command, and the ids of the devices that "it" stands for in the next one.

    After an ambiguous command that is nothing: another device than the speaker means would be a guess. Devices beyond
    `max_bytes` are counted only.
    """
    fitting: list[CheckedDevice] = []
    refused: list[tuple[DeviceMatch, RefusedDevice]] = []
    for match in matches:
        choice = check.choose_command(match.device)
        if isinstance(choice, ChosenCommand):
            fitting.append(CheckedDevice(match, choice))
        else:
            refused.append((match, choice))
    selection = select_devices(query, fitting)
    if not fitting:
        status = ResolutionStatus.NO_COMMAND if query.action else ResolutionStatus.NOT_UNDERSTOOD
        selection = Selection(status)
    candidates = tuple(make_recalled_device(each.match) for each in selection.candidates[:MAX_CANDIDATES])
    devices, left = _fit(map(make_resolved_device, selection.devices), max_bytes)
    dropped, _ = _fit((make_dropped_device(*each) for each in refused[:_MAX_DROPPED]), left)
    ambiguous = selection.status is ResolutionStatus.AMBIGUOUS
    several = query.quantifier in (Quantifier.SOME, Quantifier.COUNT)
    result = ResolvedQuery(
        query=query,
        status=selection.status,
        devices=devices,
        more_devices=len(selection.devices) - len(devices),
        candidates=candidates,
        dropped=dropped,
        question=ask_to_choose(candidates, language, several=several) if ambiguous else None,
        confidence=round(query.confidence * min((each.confidence for each in selection.devices), default=0.0), 4),
    )
    meant = [each.match for each in selection.devices] if fitting else matches
    return result, [match.device.id for match in meant]


def report_gap(query: QueryIR, recall: Recall, language: Language) -> ResolvedQuery:
    """Return the outcome for a command that cannot be matched with the home: a question."""
    gap = recall.gap or RecallGap.NO_TARGET
    if gap is RecallGap.UNKNOWN_EXCLUSION:
        status = ResolutionStatus.NO_DEVICE
    elif gap is RecallGap.NO_TARGET and not query.action:
        status = ResolutionStatus.NOT_UNDERSTOOD
    else:
        status = ResolutionStatus.UNRESOLVED
    question = ask_about_gap(gap, recall.unknown, language)
    return ResolvedQuery(query=query, status=status, question=question, confidence=0.0)


def report_similar(query: QueryIR, similar: Sequence[DeviceMatch], language: Language) -> ResolvedQuery:
    """Return the outcome for a command whose devices the home does not have: devices with similar names to choose."""
    if not similar:
        return ResolvedQuery(query=query, status=ResolutionStatus.NO_DEVICE, confidence=0.0)
    candidates = tuple(make_recalled_device(match) for match in similar[:MAX_CANDIDATES])
    return ResolvedQuery(
        query=query,
        status=ResolutionStatus.AMBIGUOUS,
        candidates=candidates,
        question=ask_to_choose(candidates, language),
        confidence=0.0,
    )


def _fit(values: Iterable[ValueT], room: int) -> tuple[tuple[ValueT, ...], int]:
    """Return the first values that fit into as many bytes of a reply, and the bytes that are left."""
    fitting: list[ValueT] = []
    for value in values:
        size = measure_json(value) + 1
        if size > room:
            break
        room -= size
        fitting.append(value)
    return tuple(fitting), room


def make_recalled_device(match: DeviceMatch) -> RecalledDevice:
    """Return a recalled device as the contract has it."""
    device = match.device
    return RecalledDevice(
        id=device.id,
        name=device.name,
        room=device.room,
        type=device.type,
        reasons=match.reasons,
        confidence=round(match.confidence, 4),
    )


def make_resolved_device(checked: CheckedDevice) -> ResolvedDevice:
    """Return a device with its command as the contract has them."""
    device, choice = checked.match.device, checked.choice
    call = ResolvedCommandCall(
        id=choice.command.id,
        capability=choice.command.capability,
        command=choice.command.command,
        description=dict(choice.command.description),
        score=round(choice.score, 4),
        arguments=dict(choice.arguments),
    )
    return ResolvedDevice(
        id=device.id,
        name=device.name,
        room=device.room,
        type=device.type,
        reasons=checked.match.reasons,
        confidence=round(checked.confidence, 4),
        command=call,
    )


def make_dropped_device(match: DeviceMatch, refused: RefusedDevice) -> DroppedDevice:
    """Return a device without a command as the contract has it."""
    score = refused.best_score
    return DroppedDevice(
        id=match.device.id,
        name=match.device.name,
        reason=refused.reason,
        detail=refused.detail,
        best_score=None if score is None else round(score, 4),
    )
