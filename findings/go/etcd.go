package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// etcdTimeout bounds the start of the server, and each request.
const etcdTimeout = 30 * time.Second

type etcdEngine struct {
	server *embed.Etcd
	client *clientv3.Client
}

// openEtcd starts a server with one member in this process.
func openEtcd(directory string) (engine, error) {
	config := embed.NewConfig()
	config.Dir = filepath.Join(directory, "etcd")
	config.LogLevel = "fatal"
	// Ports of the loopback interface that no other check has: each check has its own network.
	local, err := url.Parse("http://127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	config.ListenClientUrls = []url.URL{*local}
	config.ListenPeerUrls = []url.URL{*local}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(etcdTimeout):
		return nil, fmt.Errorf("the server does not start")
	}
	return &etcdEngine{server, v3client.New(server.Server)}, nil
}

func (e *etcdEngine) commit(number int, content string) error {
	limit, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	_, err := e.client.Put(limit, strconv.Itoa(number), content)
	return err
}

func (e *etcdEngine) rows() (map[int]string, error) {
	limit, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	found, err := e.client.Get(limit, "", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	rows := map[int]string{}
	for _, pair := range found.Kvs {
		number, err := strconv.Atoi(string(pair.Key))
		if err != nil {
			return nil, err
		}
		rows[number] = string(pair.Value)
	}
	return rows, nil
}

func (e *etcdEngine) close() error {
	e.server.Close()
	return nil
}
