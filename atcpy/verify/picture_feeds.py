"""Feeds of a package with AIPP and of its model: pictures for the one, and what numpy makes of them for the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from atcpy.aipp.config import Aipp
from atcpy.aipp.pictures import PictureInput, default_settings, source_shape
from atcpy.errors import UsageError, Where, did_you_mean
from atcpy.ir import DType
from atcpy.runtime.picture_inputs import picture_inputs
from atcpy.verify.inputs import Array, Feeds, Port

if TYPE_CHECKING:
    from atcpy import InferenceSession


@dataclass(frozen=True)
class PictureFeeds:
    """The inputs with AIPP of a package, and the settings that its dynamic ones have in this run."""

    inputs: Mapping[str, PictureInput]
    settings: Mapping[str, object]

    @classmethod
    def of(
        cls, session: InferenceSession, settings: Mapping[str, object] | None = None, *, use_defaults: bool = True
    ) -> PictureFeeds:
        """Find the inputs. Dynamic ones without settings get some, or are left out: then they are fed as bytes and
        parameters. Raises UsageError (E10404) for settings of other inputs, E10052 where defaults do not fit.
        """
        inputs = picture_inputs(session.model.graph.inputs)
        dynamic = [name for name, found in inputs.items() if found.is_dynamic]
        for name in settings or {}:
            if name not in dynamic:
                hint = did_you_mean(name, dynamic) or f"its inputs with dynamic AIPP: {', '.join(dynamic) or 'none'}"
                what = f'--aipp: "{name}" is no input with dynamic AIPP'
                raise UsageError("E10404", what, where=Where(option="aipp"), hint=hint)
        chosen = dict(settings or {})
        for name in dynamic:
            if name in chosen:
                continue
            if use_defaults:
                chosen[name] = default_settings(inputs[name])
            else:
                del inputs[name]
        return cls(inputs, chosen)

    def ports(self, ports: Sequence[Port]) -> list[Port]:
        """The ports of the package, but for the parameters of dynamic AIPP; its pictures have their shape."""
        hidden = {found.model.parameters for found in self.inputs.values()}
        return [self._port(port) for port in ports if port.name not in hidden]

    def _port(self, port: Port) -> Port:
        found = self.inputs.get(port.name)
        if found is None or not found.is_dynamic:
            return port
        block = found.first_settings(self.settings[port.name])
        assert found.model.pictures is not None
        return replace(port, dtype=DType.UINT8, shape=(found.model.pictures, *source_shape(block)))

    def picture_settings(self, name: str) -> Mapping[str, object] | None:
        """The settings of the first picture of a dynamic input; None of any other."""
        if name not in self.settings:
            return None
        return self.inputs[name].first_settings(self.settings[name]).settings

    def package_feeds(self, feeds: Feeds) -> Feeds:
        """What the package is fed."""
        fed = dict(feeds)
        for name, found in self.inputs.items():
            if found.is_dynamic and name in feeds:
                fed |= found.run_feeds(self._blocks(found, feeds[name]), feeds[name])
        return fed

    def model_feeds(self, feeds: Feeds) -> Feeds:
        """What the model is fed."""
        fed = dict(feeds)
        for name, found in self.inputs.items():
            if name in feeds:
                fed[name] = found.model_array(self._blocks(found, feeds[name]), feeds[name])
        return fed

    def _blocks(self, found: PictureInput, pictures: Array) -> list[Aipp]:
        if not found.is_dynamic:
            return [found.static_settings()] * len(pictures)
        return found.run_settings(self.settings[found.name], pictures)
