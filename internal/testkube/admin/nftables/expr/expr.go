package expr

// Any is an expression.
type Any any

// Expressions.
type (
	// Meta is data about a packet.
	Meta struct {
		Key            int
		SourceRegister bool
		Register       uint32
	}
	// Cmp compares.
	Cmp struct {
		Op       int
		Register uint32
		Data     []byte
	}
	// Payload is a part of a packet.
	Payload struct {
		DestRegister uint32
		Base         int
		Offset, Len  uint32
	}
	// Verdict decides.
	Verdict struct{ Kind int }
	// Ct is data about a connection.
	Ct struct {
		Register       uint32
		SourceRegister bool
		Key            int
	}
	// Bitwise calculates.
	Bitwise struct {
		SourceRegister, DestRegister uint32
		Len                          uint32
		Mask, Xor                    []byte
	}
	// Queue hands a packet to a process.
	Queue struct {
		Num  uint16
		Flag int
	}
	// Lookup asks a set.
	Lookup struct {
		SourceRegister, DestRegister uint32
		SetName                      string
	}
	// Counter counts.
	Counter struct{}
)

// Names of what expressions are about, without their values.
const (
	CmpOpEq                    = 0
	CmpOpNeq                   = 0
	CtKeySTATE                 = 0
	CtStateBitESTABLISHED      = 0
	CtStateBitRELATED          = 0
	MetaKeyL4PROTO             = 0
	MetaKeyNFPROTO             = 0
	MetaKeySKUID               = 0
	PayloadBaseNetworkHeader   = 0
	PayloadBaseTransportHeader = 0
	QueueFlagBypass            = 0
	VerdictAccept              = 0
)
