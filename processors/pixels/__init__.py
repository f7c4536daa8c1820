"""What families of pictures share: resizing in two modes, normalising, and reading a folder's settings of both."""
