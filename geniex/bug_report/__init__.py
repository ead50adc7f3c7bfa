"""What a bug report needs to know of this machine, without what is nobody's business."""
