"""Names the packages; everything else stands in pyproject.toml."""

from setuptools import find_namespace_packages, setup

# Folders at the top of the repository, imported as bon.policies, bon.rewarders and bon.analysis:
# one import root, so no folder of a user can shadow them.
ROOMS = ("policies", "rewarders", "analysis")
below = find_namespace_packages(
    include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")]
)

setup(
    packages=[
        *find_namespace_packages(include=["bon", "bon.*"]),
        *(f"bon.{name}" for name in below),
    ],
    package_dir={f"bon.{room}": room for room in ROOMS},
)
