"""The HTTP service: validations, the online selector, rewards for trainers, and pages."""
