"""The stage compile: kernels, memory, tasks."""

from atcpy.discovery import import_modules

import_modules(__name__, __path__)
