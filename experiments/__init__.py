"""Training programs that report what they do in event lines and run with plain torchrun."""

from trainkit.parent import end_with_launcher

end_with_launcher()  # here, because the import of torch that follows takes seconds
