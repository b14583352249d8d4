"""Settings for every test: no test may depend on how busy the machine is."""

from hypothesis import settings

settings.register_profile("heddle", deadline=None, print_blob=True)
settings.load_profile("heddle")
