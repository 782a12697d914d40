"""Pure rulings over stored facts: nothing here touches a clock, a socket or a file."""
