"""Pictures: UTKFace, CelebA and the user's own, decoded once; and made-up faces."""

from glocalfair.data.images import celeba, faces, folder, utkface

DATASETS = (celeba.DATASET, faces.DATASET, folder.DATASET, utkface.DATASET)
