"""Mappings of ops over images: convolution and pooling, resizing, patches, boxes, normalisation by channel."""
