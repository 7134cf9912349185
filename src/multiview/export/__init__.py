"""What leaves the store: views as public files, what a refresh changed in them, and how other systems get them."""
