"""Settings for every test: none may depend on how busy the machine is, or on what another one left behind."""

import os

# Tests start many processes; gRPC's own handling of forks breaks its poller then (seen with grpcio 1.85). It is read
# when grpc is first imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

import os

from hypothesis import settings

# A controller that a test starts must never share what it remembers with another one, nor with this machine's own.
os.environ["HEDDLE_STATE"] = "none"

# Nor may the width of whoever's terminal decide where lines break; processes that share the tests are given one.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

settings.register_profile("heddle", deadline=None, print_blob=True)
settings.load_profile("heddle")
