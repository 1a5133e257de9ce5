"""Other programs' formats, one file each: traces, tables and run stores, read into studies or written from them."""
