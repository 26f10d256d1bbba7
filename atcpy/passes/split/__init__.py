"""The stage split: engine placement, clusters, the cut."""

from atcpy.discovery import import_modules

import_modules(__name__, __path__)
