import os

import hypothesis

# A slow machine is no failure.
hypothesis.settings.register_profile("mlml", deadline=None, print_blob=True)
hypothesis.settings.load_profile("mlml")

# No test reaches for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"
