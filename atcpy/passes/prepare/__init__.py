"""Passes of the stage prepare, engine-neutral, by family."""

from atcpy.discovery import import_modules

import_modules(__name__, __path__)
