// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestAnswersThatNobodyWants has registries answer, and then send once more what they were sent,
// on a connection that waits for the next request. net/http says in containerd's log that there
// was something, and does not say what, nor as often as registries like.
func TestAnswersThatNobodyWants(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	address := talkative(t)
	n.WriteHosts("talkative.test", fmt.Sprintf("server = \"http://%s\"\n", address))
	said := func() int { return len(n.LogLines(0, "Unsolicited response")) }
	for i := range 20 {
		n.MustFail(fmt.Sprintf("talkative.test/app-%d:1", i), nil, alice.secret())
	}
	nodetest.Eventually(t, "a line", func() bool { return said() > 0 })
	nodetest.Want(t, "no more than a few", said() < 10, true)
	for _, secret := range []string{alice.password, base64.StdEncoding.EncodeToString([]byte(alice.user + ":" + alice.password))} {
		nodetest.Want(t, "lines with "+secret, len(n.LogLines(0, secret)), 0)
	}
}

// talkative is a registry by HTTP/1.1 that has nothing, and repeats what it is sent.
func talkative(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go talk(c)
		}
	}()
	return l.Addr().String()
}

func talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	for r := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		user, password, ok := req.BasicAuth()
		if !ok {
			_, _ = fmt.Fprint(c, "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		_, _ = fmt.Fprint(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		_, _ = fmt.Fprintf(c, "you sent %s %s, %s", user, password, req.Header.Get("Authorization"))
		return
	}
}
