"""How a model answers: freely, held to the catalogue, many answers of one prompt."""
