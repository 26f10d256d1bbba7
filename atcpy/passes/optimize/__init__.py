"""The stage optimize: on each piece fusion and formats, on the whole what is left over."""

from atcpy.discovery import import_modules

import_modules(__name__, __path__)
