package threat

// A Hello is the first message of a key exchange, as somebody would send it whom nobody knows.
type Hello struct {
	Name string // as its protocol has it: "an IKE_SA_INIT"
	Port uint16 // of UDP
	Data []byte
}

// An Offer is a first message with a choice of ciphers.
type Offer struct {
	Hello // its name is that of the ciphers
	// Usual says that the hosts are set up for these ciphers: they take the offer if it comes from the address of another
	// host, which shows that an answer can be seen.
	Usual   bool
	Answers AnswerReader
}

// An AnswerReader reads answers to an offer.
type AnswerReader interface {
	// Read says whether the payload of a datagram answers the offer, and whether it takes it. Again is the message as it
	// has to be sent once more, if the answer asks for that.
	Read(payload []byte) (mine, taken bool, again []byte)
}
