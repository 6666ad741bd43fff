package link

import (
	"errors"
	"testing"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestCheckKind(t *testing.T) {
	testnet.Root(t)
	if err := CheckKind("macvlan", ""); err != nil {
		testnet.Skip(t, err)
	}
	err := CheckKind("nettoll", "use another")
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != `link type "nettoll"` ||
		u.Hint != "use another" {
		t.Errorf("CheckKind of no kind = %v", err)
	}
}
