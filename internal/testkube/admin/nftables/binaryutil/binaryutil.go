package binaryutil

// An Order would be an order of bytes.
type Order struct{}

// The orders.
var BigEndian, NativeEndian Order

// PutUint16 returns nothing.
func (Order) PutUint16(uint16) []byte { return nil }

// PutUint32 returns nothing.
func (Order) PutUint32(uint32) []byte { return nil }
