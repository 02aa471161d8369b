"""The report page of a workspace and the plot of a release's card."""

PAGE = "report.html"  # in a workspace
