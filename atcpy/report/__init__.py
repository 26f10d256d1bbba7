"""What people read: text and JSON views of conversions and packages."""
