"""Mapping functions, one module a family: importing this package registers them all."""

from atcpy.discovery import import_modules

import_modules(__name__, __path__)
