"""Pictures: models with torchvision's key names, pretrained weights, augmentation, and what a model looks at."""
