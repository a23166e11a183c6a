from glocalfair.data.options import from_mapping as from_mapping
