// Now has no body in Go: this file lets the compiler accept that.
