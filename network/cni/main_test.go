package cni_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/network/cni"
)

// fake says which plugin this program is, if it is called as one.
const fake = "NETTOLL_TEST_CNI"

func TestMain(m *testing.M) {
	if kind := os.Getenv(fake); kind != "" {
		os.Exit(played(kind))
	}
	steptest.Main(m, cni.Network{}.Daemons())
}

// played is a plugin: an IPAM that hands out only the addresses of $NETTOLL_TEST_CNI_IPS, or one of a chain whose CHECK
// fails.
func played(kind string) int {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 1
	}
	var in struct {
		PrevResult json.RawMessage `json:"prevResult"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return 1
	}
	switch command := os.Getenv("CNI_COMMAND"); {
	case command == "VERSION":
		fmt.Println(`{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}`)
	case command == "ADD" && kind == "ipam":
		fmt.Printf(`{"cniVersion": "1.0.0", "ips": %s}`, os.Getenv("NETTOLL_TEST_CNI_IPS"))
	case command == "ADD":
		_, _ = os.Stdout.Write(in.PrevResult)
	case command == "CHECK" && kind == "check":
		fmt.Println(`{"cniVersion": "1.0.0", "code": 100, "msg": "this CHECK always fails"}`)
		return 1
	}
	return 0
}
