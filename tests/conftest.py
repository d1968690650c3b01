import os

import hypothesis

from mlml.core.progress import log_to_terminal

# A slow machine is no failure.
hypothesis.settings.register_profile("mlml", deadline=None, print_blob=True)
hypothesis.settings.load_profile("mlml")

# No test reaches for a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

# What a user would see, so that tests can ask for it by `capsys`.
log_to_terminal()
