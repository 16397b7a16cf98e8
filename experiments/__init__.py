"""Training programs that report events and run under plain torchrun."""

from trainkit.parent import end_with_launcher

end_with_launcher()  # before the import of torch, which takes seconds
