// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster tries what deploy has for clusters against a stock kube-apiserver: the
// Helm chart, rendered by Helm, the rollout with the chart's own rights, and the examples of
// admission policies. Nodes are objects without a kubelet; machines plays their part.
//
// make test-cluster builds what these tests need, and runs them.
package cluster

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The environment variables that name the directories of what make test-cluster builds.
const (
	kubernetesEnv = "PULLWARDEN_KUBERNETES" // kube-apiserver and etcd
	toolsEnv      = "PULLWARDEN_TOOLS"      // helm and dockerlint
	binEnv        = "PULLWARDEN_BIN"        // pullwarden and pullwarden-rollout
)

const (
	adminToken = "of-the-test"
	startLimit = 2 * time.Minute // for a busy machine
)

// Cluster is a kube-apiserver with RBAC and its usual admission, and its etcd.
type Cluster struct {
	t      testing.TB
	server string // its URL
	caFile string
	client *http.Client
}

// built returns the path of a program in the directory that an environment variable names.
func built(t testing.TB, env, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(env), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s=%q: %v\nbuild what it names, and run this test, with: make test-cluster", env, os.Getenv(env), err)
	}
	return path
}

// newCluster starts both, and waits until they are ready. They end with the test.
func newCluster(t testing.TB) *Cluster {
	t.Helper()
	dir := t.TempDir()
	etcd, peer, port := freePort(t), freePort(t), freePort(t)
	write(t, filepath.Join(dir, "tokens.csv"), adminToken+",administrator,1,system:masters\n")
	write(t, filepath.Join(dir, "accounts.pem"), privateKey(t))
	start(t, dir, built(t, kubernetesEnv, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", "http://127.0.0.1:"+etcd, "--advertise-client-urls", "http://127.0.0.1:"+etcd,
		"--listen-peer-urls", "http://127.0.0.1:"+peer, "--initial-advertise-peer-urls", "http://127.0.0.1:"+peer, "--initial-cluster", "default=http://127.0.0.1:"+peer)
	start(t, dir, built(t, kubernetesEnv, "kube-apiserver"), "--etcd-servers", "http://127.0.0.1:"+etcd, "--cert-dir", filepath.Join(dir, "certs"),
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", port, "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/24",
		"--allow-privileged", "--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://test", "--service-account-key-file", filepath.Join(dir, "accounts.pem"), "--service-account-signing-key-file", filepath.Join(dir, "accounts.pem"))
	c := &Cluster{
		t: t, server: "https://127.0.0.1:" + port, caFile: filepath.Join(dir, "certs", "apiserver.crt"),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
	}
	c.until("the API server is ready", func() error {
		return errors.Join(c.call(http.MethodGet, "/readyz", nil, nil), c.call(http.MethodGet, "/api/v1/namespaces/default", nil, nil),
			c.call(http.MethodGet, "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", nil, nil))
	})
	return c
}

// start starts a process that ends with the test. Its output is shown if that fails.
func start(t testing.TB, dir, path string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, filepath.Base(path)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("the end of %s: %s, %v", log.Name(), text[max(0, len(text)-4000):], err)
		}
	})
}

// freePort returns a port that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// until waits until a function returns no error.
func (c *Cluster) until(what string, done func() error) {
	c.t.Helper()
	deadline := time.Now().Add(startLimit)
	for {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited for: %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond) // a look at it again
	}
}

// call asks the API server as administrator. The error has an answer that is none of
// success. A body that is text is YAML to be applied.
func (c *Cluster) call(method, path string, body, answer any) error {
	contentType, content := "application/json", []byte{}
	switch b := body.(type) {
	case nil:
	case string:
		contentType, content = "application/apply-patch+yaml", []byte(b)
	default:
		content, _ = json.Marshal(b)
		if method == http.MethodPatch {
			contentType = "application/merge-patch+json"
		}
	}
	req, err := http.NewRequest(method, c.server+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", contentType)
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// must is call without an error.
func (c *Cluster) must(method, path string, body, answer any) {
	c.t.Helper()
	if err := c.call(method, path, body, answer); err != nil {
		c.t.Fatal(err)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// privateKey makes a key that tokens of service accounts are signed with.
func privateKey(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := pem.Encode(&b, &pem.Block{Type: "EC PRIVATE KEY", Bytes: der}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
