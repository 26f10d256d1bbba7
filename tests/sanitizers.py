"""What cannot run under AddressSanitizer (`make asan`) says so."""

import os

import pytest

IS_SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")

limits_memory = pytest.mark.skipif(
    IS_SANITIZED, reason="AddressSanitizer maps 20 TB: no limit on the memory of a process has room for it"
)
loads_openvino = pytest.mark.skipif(
    IS_SANITIZED, reason="OpenVINO loads libraries with RTLD_DEEPBIND, which AddressSanitizer refuses"
)
