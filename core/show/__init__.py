"""What people see: pictures, progress, reports and short texts."""
