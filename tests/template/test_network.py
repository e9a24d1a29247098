"""Nothing listens, and the service is there only where it has somewhere to run."""

from tests.template.document import Document, properties_of, references_of, resources_of
from tests.template.evaluation import stack

NETWORK = {"VpcId": "vpc-0123456789abcdef0", "SubnetIds": "subnet-0123456789abcdef0"}


def test_nothing_is_let_in(document: Document) -> None:
    assert not resources_of(document, "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupRule")
    groups = resources_of(document, "AWS::EC2::SecurityGroup")
    assert list(groups) == ["WorkerSecurityGroup"]
    assert "SecurityGroupIngress" not in groups["WorkerSecurityGroup"]["Properties"]


def test_the_way_out_is_tcp_by_ipv4_and_ipv6(document: Document) -> None:
    egress = properties_of(document, "WorkerSecurityGroup")["SecurityGroupEgress"]
    assert {each["IpProtocol"] for each in egress} == {"tcp"}
    assert [each.get("CidrIp") or each.get("CidrIpv6") for each in egress] == ["0.0.0.0/0", "::/0"]


def test_no_worker_has_a_port_or_a_load_balancer(document: Document) -> None:
    assert "LoadBalancers" not in properties_of(document, "WorkerService")
    for container in properties_of(document, "WorkerTask")["ContainerDefinitions"]:
        assert "PortMappings" not in container
    assert not [each for each in resources_of(document) if "LoadBalancer" in each]


def test_a_public_address_has_to_be_asked_for(document: Document) -> None:
    network = properties_of(document, "WorkerService")["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert network["AssignPublicIp"] == {"Ref": "AssignPublicIp"}
    assert stack(document).parameter("AssignPublicIp") == "DISABLED"


def test_without_a_vpc_all_but_the_service_is_made(document: Document) -> None:
    without, with_vpc = stack(document).resources(), stack(document, **NETWORK).resources()
    assert with_vpc - without == {"WorkerService", "WorkerSecurityGroup"}
    assert not without - with_vpc


def test_security_groups_that_are_given_replace_the_one_that_is_made(document: Document) -> None:
    given = stack(document, **NETWORK, SecurityGroupIds="sg-0123456789abcdef0")
    assert "WorkerSecurityGroup" not in given.resources()
    assert "WorkerService" in given.resources()
    [condition, made, own] = properties_of(document, "WorkerService")["NetworkConfiguration"]["AwsvpcConfiguration"][
        "SecurityGroups"
    ]["Fn::If"]
    assert not given.condition(condition)
    assert references_of(made) == {"WorkerSecurityGroup"}
    assert references_of(own) == {"SecurityGroupIds"}


def test_what_is_left_out_is_in_no_output(document: Document) -> None:
    conditional = {name: each["Condition"] for name, each in document["Resources"].items() if "Condition" in each}
    for name, output in document["Outputs"].items():
        for reference in references_of(output["Value"]) & set(conditional):
            assert output.get("Condition") == conditional[reference], name
