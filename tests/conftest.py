"""Settings for every test: no test may depend on how busy the machine is."""

import os

# Tests start many processes; gRPC's own handling of forks breaks its poller then (seen with grpcio 1.85). It is read
# when grpc is first imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from hypothesis import settings

settings.register_profile("heddle", deadline=None, print_blob=True)
settings.load_profile("heddle")
