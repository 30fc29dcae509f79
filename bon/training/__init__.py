"""Gains by training: policies trained on what rewarders prefer, and evaluated."""
