def mask_secrets(c):
    return c, 0
