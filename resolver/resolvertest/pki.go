// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// WithTLS serves HTTPS with a certificate for 127.0.0.1, localhost and registry.test from a
// CA of the registry's own.
func WithTLS() Option { return func(r *Registry) { r.withPKI(tls.NoClientCert) } }

// WithClientCertificates is WithTLS, and asks for a certificate of the same CA
// from each client.
func WithClientCertificates() Option {
	return func(r *Registry) { r.withPKI(tls.RequireAndVerifyClientCert) }
}

// CAPEM returns the certificate of the registry's CA, nil without TLS.
func (r *Registry) CAPEM() []byte {
	if r.pki == nil {
		return nil
	}
	return r.pki.ca
}

// CAFile writes the certificate of the registry's CA to ca.pem in dir.
func (r *Registry) CAFile(dir string) (string, error) {
	if r.pki == nil {
		return "", fmt.Errorf("registry %s was started without TLS", r.Host())
	}
	path := filepath.Join(dir, "ca.pem")
	return path, os.WriteFile(path, r.pki.ca, 0o600)
}

// ClientCertPEM returns a certificate that WithClientCertificates accepts, nil
// without TLS.
func (r *Registry) ClientCertPEM() []byte {
	if r.pki == nil {
		return nil
	}
	return r.pki.clientCert
}

// ClientKeyPEM returns the key of ClientCertPEM.
func (r *Registry) ClientKeyPEM() []byte {
	if r.pki == nil {
		return nil
	}
	return r.pki.clientKey
}

type pki struct {
	ca, clientCert, clientKey []byte // PEM
	server                    *tls.Config
}

func (r *Registry) withPKI(clients tls.ClientAuthType) {
	p, err := newPKI(clients)
	if err != nil {
		r.err = fmt.Errorf("make certificates: %w", err)
		return
	}
	r.pki = p
}

func newPKI(clients tls.ClientAuthType) (*pki, error) {
	root := &x509.Certificate{
		Subject: pkix.Name{CommonName: "resolvertest CA"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caCert, caKey, err := issue(root, nil, nil)
	if err != nil {
		return nil, err
	}
	caX509, err := x509.ParseCertificate(caCert)
	if err != nil {
		return nil, err
	}
	serverCert, serverKey, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "resolvertest"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "registry.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, caX509, caKey)
	if err != nil {
		return nil, err
	}
	clientCert, clientKey, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, caX509, caKey)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(clientKey)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(caX509)
	return &pki{
		ca:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caCert}),
		clientCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: clientCert}),
		clientKey:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		server: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{serverCert}, PrivateKey: serverKey}},
			ClientCAs:    pool, ClientAuth: clients, MinVersion: tls.VersionTLS12,
		},
	}, nil
}

// issue returns a certificate (DER) from the template, signed by the parent or,
// without one, by itself.
func issue(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	return der, key, err
}
