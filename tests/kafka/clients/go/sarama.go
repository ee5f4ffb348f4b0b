package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct{}

func (saramaClient) config(o options) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = !o.plain
	config.Net.MaxOpenRequests = 1 // its idempotent producer demands it
	config.Producer.Retry.Max = 1_000
	config.Producer.Return.Successes = true
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[o.compression]
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	if o.session > 0 {
		config.Consumer.Group.Session.Timeout = o.session
		config.Consumer.Group.Heartbeat.Interval = o.session / 10
	}
	return config
}

func (s saramaClient) produce(o options, records <-chan sent, acknowledged func(string, int64)) error {
	producer, err := sarama.NewAsyncProducer(o.servers, s.config(o))
	if err != nil {
		return err
	}
	go func() {
		for each := range records {
			producer.Input() <- &sarama.ProducerMessage{
				Topic: o.topic, Key: sarama.StringEncoder(each.key), Value: sarama.StringEncoder(each.value),
				Headers: []sarama.RecordHeader{{Key: []byte("prefix"), Value: []byte(each.prefix)}}, Metadata: each.value,
			}
		}
		producer.AsyncClose()
	}()
	done := make(chan error, 1)
	go func() {
		var failed error
		for each := range producer.Errors() {
			failed = each
		}
		done <- failed
	}()
	for each := range producer.Successes() {
		acknowledged(each.Metadata.(string), each.Offset)
	}
	return <-done
}

func (s saramaClient) consume(o options, read func(int64, string) bool) error {
	consumer, err := sarama.NewConsumer(o.servers, s.config(o))
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(o.topic, 0, o.offset)
	if err != nil {
		return err
	}
	defer partition.Close()
	for each := range partition.Messages() {
		if !read(each.Offset, string(each.Value)) {
			break
		}
	}
	return nil
}

// handler is a member of a group.
type handler struct {
	read func(int64, string) bool
	stop context.CancelFunc
}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for each := range claim.Messages() {
		goesOn := h.read(each.Offset, string(each.Value))
		session.MarkMessage(each, "")
		if !goesOn || len(claim.Messages()) == 0 {
			session.Commit()
		}
		if !goesOn {
			h.stop()
			break
		}
	}
	return nil
}

func (s saramaClient) subscribe(o options, read func(int64, string) bool) error {
	group, err := sarama.NewConsumerGroup(o.servers, o.group, s.config(o))
	if err != nil {
		return err
	}
	defer group.Close()
	all, stop := context.WithCancel(context.Background())
	for all.Err() == nil {
		if err := group.Consume(all, []string{o.topic}, handler{read, stop}); err != nil {
			// The coordinator is not there: the next call looks for it again.
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(step)
		}
	}
	return nil
}

func (s saramaClient) describe(o options) (found description, err error) {
	cl, err := sarama.NewClient(o.servers, s.config(o))
	if err != nil {
		return found, err
	}
	defer cl.Close()
	admin, err := sarama.NewClusterAdminFromClient(cl)
	if err != nil {
		return found, err
	}
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return found, err
	}
	for _, each := range brokers {
		found.Nodes = append(found.Nodes, each.ID())
	}
	sort.Slice(found.Nodes, func(a, b int) bool { return found.Nodes[a] < found.Nodes[b] })
	if found.Topics, err = cl.Topics(); err != nil {
		return found, err
	}
	sort.Strings(found.Topics)
	leader, err := cl.Leader(o.topic, 0)
	if err != nil {
		return found, err
	}
	found.Leader = leader.ID()
	for _, each := range []struct {
		time   int64
		offset *int64
	}{{sarama.OffsetOldest, &found.StartOffset}, {sarama.OffsetNewest, &found.EndOffset}, {1, &found.OffsetOfTime}} {
		if *each.offset, err = cl.GetOffset(o.topic, 0, each.time); err != nil {
			return found, err
		}
	}
	answer, err := leader.GetMetadata(&sarama.MetadataRequest{Version: 5})
	if err != nil {
		return found, err
	}
	if answer.ClusterID != nil {
		found.ClusterID = *answer.ClusterID
	}
	return found, nil
}
