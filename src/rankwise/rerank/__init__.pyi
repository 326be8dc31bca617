from .lists import Lists as Lists
