"""Drawing items from the candidate pools of judged runs."""
