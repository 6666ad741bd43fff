//go:build !linux

package testnet

import "errors"

func mayConfigure() error { return errors.ErrUnsupported }
