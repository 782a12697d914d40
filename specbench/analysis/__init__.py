"""Pure statistics over judged cells."""
